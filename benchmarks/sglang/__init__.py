"""agentform before SGLang: a router's policies over two servers, and the pool of snapshots inside one."""
