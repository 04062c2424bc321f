"""Forms, the judgements that answer their questions, and the requests to judges that are models, with checks."""
