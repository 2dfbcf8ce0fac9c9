/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a controller is reached: a transport and an address there. Each transport has port numbers
 * of its own, so one IP address and port number may be two controllers. Every list of paths and
 * every text about a path compares and prints these addresses with the functions here.
 *
 * Any thread.
 */
#ifndef WEFT_HOST_HOST_ADDR_H
#define WEFT_HOST_HOST_ADDR_H

#include "base/net_addr.h"
#include "wire/log_page.h"

#include <stdbool.h>

struct host_transport;

struct host_addr {
	const struct host_transport *transport; /* NULL: TCP */
	struct net_addr net;
};

#define HOST_TRANSPORT_NAME_MAX 8
#define HOST_ADDR_TEXT_BYTES    (HOST_TRANSPORT_NAME_MAX + 1 + NET_ADDR_TEXT_BYTES)

bool host_addr_same(const struct host_addr *a, const struct host_addr *b);
/* "192.0.2.1:4420" for TCP; any other transport is named: "rdma 192.0.2.1:4420". Returns `text`. */
const char *host_addr_format(const struct host_addr *addr, char text[HOST_ADDR_TEXT_BYTES]);
/* "tcp" */
const char *host_addr_transport_name(const struct host_addr *addr);

/* ---- the transports of this build (host_transport.c) ---------------------------------------- */

/* NULL: this build does not have the transport. */
const struct host_transport *host_transport_of(enum discovery_transport trtype);
const struct host_transport *host_transport_find(const char *name);
/* All names, for people: "tcp", or "tcp, rdma". */
const char *host_transport_names(void);

#endif
