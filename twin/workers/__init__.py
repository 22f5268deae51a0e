"""Where a round's batches run: this process, worker processes, a Dask cluster."""
