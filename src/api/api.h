/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The REST API of a serving process (docs/openapi.json, docs/adr/0017): one table of routes, all
 * under /v1, JSON in and out. Every change is a daemon_change; so the API can do nothing that the
 * document of desired state cannot say.
 *
 * Control reactor only.
 */
#ifndef WEFT_API_API_H
#define WEFT_API_API_H

#include "base/net_addr.h"
#include "daemon/daemon.h"

#include <stdbool.h>
#include <stddef.h>

#define API_SOCKET_NAME "weft.sock" /* in the state folder */

struct api_options {
	const char *socket_path; /* NULL: weft.sock in the state folder; "none" */
	bool has_tcp;
	struct net_addr tcp;
	const char *token_path; /* with has_tcp */
};

/*
 * For struct daemon_options. start: the socket in the state folder is optional: without it the
 * process goes on, after a warning. stop: requests that are open are answered with 503.
 */
extern const struct daemon_api api_functions;

/* ---- the table, for its test ----------------------------------------------------------------- */

struct api_call;

enum api_route_flag {
	API_BODY = 1 << 0,   /* a JSON object is expected */
	API_CHANGE = 1 << 1, /* changes the desired state: ?dry_run=true, If-Match */
	API_APPLY = 1 << 2,  /* ?apply=true */
	API_DATA = 1 << 3,   /* ?delete_data=true */
	API_LIMIT = 1 << 4,  /* ?limit=N */
};

struct api_route {
	const char *method;
	const char *pattern; /* {name} stands for one part of the path */
	void (*handle)(struct api_call *call);
	const char *summary;
	unsigned flags;
};

const struct api_route *api_routes(size_t *ret_count);
/* docs/openapi.json, as it was built in. */
extern const char api_openapi_json[];

#endif
