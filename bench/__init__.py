"""Measures the product's request path; see docs/performance.md."""
