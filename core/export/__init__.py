"""One conversation as a document to take away: HTML, Markdown, JSON, or a picture."""
