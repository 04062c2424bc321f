"""Export of conversations as documents: HTML, Markdown, JSON, or a picture."""
