"""What a person sees, made once as data and shown in the terminal, as HTML, on the dashboard and as JSON."""
