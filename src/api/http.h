/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.1 for the REST API: libmicrohttpd's own thread does the socket I/O and nothing else. Each
 * complete request is posted to the control reactor, where it is handled and answered; meanwhile
 * its connection is suspended. Bodies, connections and times are bounded.
 *
 * All functions here are called on the control reactor. Private to api/.
 */
#ifndef WEFT_API_HTTP_H
#define WEFT_API_HTTP_H

#include "base/net_addr.h"
#include "base/unix_socket.h"
#include "reactor/reactor.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP_BODY_BYTES_MAX  (16u * 1024 * 1024)
#define HTTP_CONNECTIONS_MAX 64 /* of each listener; see api/http_conn.c */
/* Of one address without the token, and how long each has to show it, and to read its 401. */
#define HTTP_STRANGERS_PER_ADDRESS 8
#define HTTP_STRANGER_TIMEOUT_MS   5000
#define HTTP_HEADER_TIMEOUT_MS     10000 /* from the end of the last answer, too */
#define HTTP_BODY_TIMEOUT_MS       60000 /* for receiving a body, and for sending an answer */
#define HTTP_TOKEN_BYTES_MIN       16
#define HTTP_TOKEN_BYTES_MAX       4096

struct http_server;

/* What a handler sees; it ends with http_request_answer, at once or later. */
struct http_request {
	char *method;
	char *path;  /* as sent: not decoded, without the query */
	char *query; /* likewise; NULL: none */
	char *if_match;
	char *content_type;
	char *body; /* terminated by 0 beyond its length */
	size_t body_bytes;
	/* The server's. */
	struct http_private *private_part;
};

struct http_answer {
	int status;
	bool is_problem;  /* the body is an error: application/problem+json */
	char *taken_body; /* of malloc; NULL: none */
	size_t body_bytes;
	uint64_t generation;  /* the ETag; 0: none */
	char *taken_location; /* of malloc; NULL: none */
	char *taken_allow;    /* methods, with status 405, of malloc; NULL: none */
};

struct http_options {
	struct reactor *control;
	const char *socket_path; /* NULL: no Unix socket */
	const char *token_path;  /* for has_tcp */
	bool has_tcp;
	struct net_addr tcp;
	void (*handle)(void *arg, struct http_request *request);
	void *arg;
};

struct http_error {
	char text[512]; /* names the thing and the remedy */
};

/* 0, or -errno with a text: then nothing was started. */
int http_server_start(const struct http_options *options, struct http_server **ret_server,
		      struct http_error *ret_error);
/* Where TCP connections are accepted, for has_tcp. */
const struct net_addr *http_server_tcp_addr(const struct http_server *server);
/*
 * No new requests. Those that are open are answered with 503; late answers of their handlers are
 * ignored. `stopped` is called when the server is gone, at the earliest from inside this call.
 */
void http_server_stop(struct http_server *server, void (*stopped)(void *arg), void *arg);

/* Once for every request. */
void http_request_answer(struct http_request *request, struct http_answer *answer);
/* "Not Found" of 404. */
const char *http_status_title(int status);
/* The text of an error as RFC 9457 has it, with "error" and "errors". NULL when out of memory; for
 * free(). */
char *http_problem_text(int status, const char *error);

/* ---- http_listen.c
 * ----------------------------------------------------------------------------- */

/*
 * Binds a Unix socket, mode 0600; one that nobody answers on is replaced. Paths longer than an
 * address can hold work as well. 0 or -errno with a text.
 */
int http_listen_unix(const char *path, int *ret_fd, struct unix_name *ret_name,
		     struct http_error *ret_error);
int http_listen_tcp(const struct net_addr *addr, int *ret_fd, struct net_addr *ret_bound,
		    struct http_error *ret_error);
/* Reads and judges a bearer token; the caller frees it. 0 or -errno with a text. */
int http_token_load(const char *path, char **ret_token, struct http_error *ret_error);
/* Whether an Authorization header carries this token; takes as long for a wrong one. */
bool http_token_matches(const char *token, const char *authorization);

#endif
