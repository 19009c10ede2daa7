"""Asks AWS, before anything is declared, whether a cluster can be built as planned. Changes nothing.

`run.run_checks` takes what is `wanted` and gives an `answer` for each check and subject. A check is a
function in the file of its subject, in two parts: one that asks and one that judges what was answered.
"""
