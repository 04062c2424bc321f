"""Takes conversations away: one as a document, or a few beside one another, as HTML, Markdown, JSON or PNG."""
