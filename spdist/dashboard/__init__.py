"""Web pages with the panels, for those without JupyterLab: Voila behind the users of the cluster's managers.

`sessions` decides and is pure; `upstream` asks the managers; `kernels`, `handlers` and `server` are the only users of
Voila and Jupyter's server; `page` is what the notebooks in ``pages/`` call, in a kernel of their own.
"""
