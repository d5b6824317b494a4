"""What a job tells of itself to Prometheus and OpenTelemetry, declared once."""
