"""Self-metrics: what the adapter says about itself. The only user of prometheus_client."""
