"""Programs: all queries of an execution group as one loop over events, compiled by numba.

A program has the same meaning as the operators (`spdist.operators`), which stay the reference and run whatever has no
typed form. It is one function over flat typed arrays, written as text from the checked app (`text`), compiled and
cached on disk (`compiler`), and fed with columns (`running`). Its state goes over from and to that of the operators
(`state`), so that snapshots have one format. See ``docs/architecture/engine.md``.
"""
