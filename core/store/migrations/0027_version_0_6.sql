-- Tables of capabilities that version 0.6 does not have any more. Their journal lines stay, and are skipped.
DROP TABLE IF EXISTS reproductions;
