"""Jobs on several machines, behind the same run as jobs on one: `cluster_run`, and the coordinator's `process`."""
