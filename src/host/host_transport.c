/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transports that this build has on the host side, by TRTYPE and by name. See host_addr.h.
 *
 * A transport that is added here is one that discovery entries and options may name. Any thread;
 * the list is constant.
 */
#include "host/host_transport.h"

#include "base/check.h"

#include <string.h>

#define BUILT_NAMES "tcp" /* of the same list */

static const struct host_transport *const built[] = {&host_transport_tcp};

const struct host_transport *host_transport_of(enum discovery_transport trtype)
{
	for (unsigned i = 0; i < ARRAY_LEN(built); i++) {
		if (built[i]->trtype == trtype)
			return built[i];
	}
	return NULL;
}

const struct host_transport *host_transport_find(const char *name)
{
	for (unsigned i = 0; i < ARRAY_LEN(built); i++) {
		if (strcmp(built[i]->name, name) == 0)
			return built[i];
	}
	return NULL;
}

const char *host_transport_names(void)
{
	return BUILT_NAMES;
}
