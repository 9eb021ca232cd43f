"""Tables 1 to 3 and figures 1 to 4 of the subquantile paper (Rathnashyam & Gittens 2023).

Run ``python -m reproduce.subquantile --help``.
"""
