/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The REST API of a serving process (docs/openapi.json, docs/adr/0017): one table of routes, all
 * under /v1, with JSON in and out. Every change of the desired state is a daemon_change, so the API
 * can set nothing that the document cannot express.
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
	const char *socket_path; /* NULL: weft.sock in the state folder; "none": no socket */
	bool has_tcp;
	struct net_addr tcp;
	const char *token_path; /* file with the token, for has_tcp */
};

/*
 * The functions for struct daemon_options. start: the socket in the state folder is optional;
 * without it the process continues after a warning. stop: open requests are answered with 503.
 */
extern const struct daemon_api api_functions;

/* ---- the table, for its test ----------------------------------------------------------------- */

struct api_call;

enum api_route_flag {
	API_BODY = 1 << 0,   /* the body must be a JSON object */
	API_CHANGE = 1 << 1, /* changes the desired state: accepts ?dry_run=true and If-Match */
	API_APPLY = 1 << 2,  /* accepts ?apply=true */
	API_DATA = 1 << 3,   /* accepts ?delete_data=true */
	API_LIMIT = 1 << 4,  /* accepts ?limit=N */
};

struct api_route {
	const char *method;
	const char *pattern; /* {name} stands for one part of the path */
	void (*handle)(struct api_call *call);
	const char *summary;
	unsigned flags;
};

const struct api_route *api_routes(size_t *ret_count);
/* docs/openapi.json, built into the program. */
extern const char api_openapi_json[];

#endif
