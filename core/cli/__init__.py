"""The command line: thin commands over core, plain sentences on errors, exit status 0 done, 1 failed, 2 misuse."""
