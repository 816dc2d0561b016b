// etcd as a program of its own: `go install` refuses its module, which replaces others.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
