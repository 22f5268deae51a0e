"""A round's batches on other machines, by Dask; imported only where the settings ask for it."""
