"""The demonstration: a real chain from queue to adapter, watched and judged while its exporter is killed."""
