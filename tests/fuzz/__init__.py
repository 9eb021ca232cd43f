"""Files made to break the reader of model files; ``python -m tests.fuzz --minutes 30`` from the root of a checkout.

``seeds.py`` fits small models of many kinds, ``mutations.py`` changes the bytes of their files, ``forgeries.py``
changes what the files say and puts a right checksum around it, ``bombs.py`` makes files that would fill the memory or
hold the processor, and ``judge.py`` loads what comes out and says whether the promises of ``docs/trust.md`` were kept.
"""
