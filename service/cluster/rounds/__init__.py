"""The rounds of a job on several machines: messages, common steps, pooled rows, certificates, Newton steps."""
