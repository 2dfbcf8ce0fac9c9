/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small HTTP/1.1 client for the REST API: one request, one connection, over a Unix socket or TCP.
 */
#ifndef WEFT_CLI_HTTP_CLIENT_H
#define WEFT_CLI_HTTP_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#define HTTP_CLIENT_ERROR_BYTES 512

struct http_client {
	const char *socket_path; /* NULL: TCP */
	const char *host;        /* TCP: a name or an address */
	uint16_t port;
	const char *token; /* NULL: none */
};

struct http_question {
	const char *method;
	const char *path;    /* encoded, with its query */
	const char *body;    /* NULL: none */
	uint64_t generation; /* If-Match; 0: none */
};

struct http_reply {
	int status;
	char *body; /* the caller frees it; terminated by 0 */
	size_t body_bytes;
};

/* 0, or -errno with a message in `error`: -ECONNREFUSED and -ENOENT when no target listens
 * there. */
int http_client_ask(const struct http_client *client, const struct http_question *question,
		    struct http_reply *ret_reply, char error[HTTP_CLIENT_ERROR_BYTES]);

#endif
