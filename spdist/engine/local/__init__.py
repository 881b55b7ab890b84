"""An app in one process and in virtual time: the reference for everything else."""
