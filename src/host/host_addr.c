/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares and prints where controllers are reached. See host_addr.h.
 *
 * The code names no transport's table, so that a program which only compares addresses needs no
 * transport. A transport is known by its TRTYPE (NVMe Base 2.1, section 5.1.12.3.1). Any thread.
 */
#include "host/host_addr.h"
#include "host/host_transport.h"

#include <stdio.h>

static enum discovery_transport type_of(const struct host_addr *addr)
{
	return addr->transport != NULL ? addr->transport->trtype : DISCOVERY_TCP;
}

bool host_addr_same(const struct host_addr *a, const struct host_addr *b)
{
	return type_of(a) == type_of(b) && net_addr_same_host(&a->net, &b->net) &&
	       net_addr_port(&a->net) == net_addr_port(&b->net);
}

const char *host_addr_transport_name(const struct host_addr *addr)
{
	return addr->transport != NULL ? addr->transport->name : "tcp";
}

const char *host_addr_format(const struct host_addr *addr, char text[HOST_ADDR_TEXT_BYTES])
{
	char net[NET_ADDR_TEXT_BYTES];
	bool is_tcp = type_of(addr) == DISCOVERY_TCP;

	snprintf(text, HOST_ADDR_TEXT_BYTES, "%.*s%s%s", HOST_TRANSPORT_NAME_MAX,
		 is_tcp ? "" : host_addr_transport_name(addr), is_tcp ? "" : " ",
		 net_addr_format(&addr->net, net));
	return text;
}
