"""Binary telemetry reports over UDP: sockets, a thread that reads them, a bounded queue, and who may send."""
