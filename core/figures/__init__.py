"""Charts of estimates with their intervals: rows in, Plotly figures out, the same for pages, commands and exports."""
