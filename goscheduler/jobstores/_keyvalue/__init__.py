"""The store on an ordered key-value server: what etcd and ZooKeeper share."""
