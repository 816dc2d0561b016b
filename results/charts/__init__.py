"""Charts of the report and the dashboard: data in, inline SVG with a small script out."""
