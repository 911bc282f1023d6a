#!/bin/sh
# An authority, and a certificate for each node and for whoever works with the cluster, below ./certificates.
set -eu
cd "$(dirname "$0")"
umask 077
[ -e certificates/authority ] || txnctl cert ca air --out certificates/authority
for node in n1 n2 n3; do
    txnctl cert node "$node" --host "$node" --ca certificates/authority --out "certificates/$node"
done
txnctl cert user prometheus --ca certificates/authority --out certificates/prometheus
txnctl cert user admin --ca certificates/authority --out certificates/user
# The containers' user reads what is mounted: nothing below leaves this machine.
chmod -R a+rX certificates/n1 certificates/n2 certificates/n3 certificates/prometheus certificates/user
