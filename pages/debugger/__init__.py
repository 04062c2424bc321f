"""Debug one case: run all arms, read the matrix of verdicts and every request and reply, edit, and branch."""
