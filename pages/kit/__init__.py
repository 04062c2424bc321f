"""What the pages are made of: navigation, filters, cached reads, figures, tables, jobs, conversations."""
