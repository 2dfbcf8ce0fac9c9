/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.1 for the REST API. libmicrohttpd's own thread does the socket I/O and nothing else. Each
 * complete request is posted to the control reactor, which handles and answers it; meanwhile its
 * connection is suspended. Bodies, connections and times are bounded.
 *
 * All functions here are called on the control reactor; http_token_matches and the texts of errors
 * also on libmicrohttpd's thread. Private to api/.
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
/* For strangers (connections that have shown no token): how many one address may have, and the time
 * of each to show the token and to read its 401. */
#define HTTP_STRANGERS_PER_ADDRESS 8
#define HTTP_STRANGER_TIMEOUT_MS   5000
#define HTTP_HEADER_TIMEOUT_MS     10000 /* also from the end of the previous answer */
#define HTTP_BODY_TIMEOUT_MS       60000 /* for receiving a body, and for sending an answer */
#define HTTP_TOKEN_BYTES_MIN       16
#define HTTP_TOKEN_BYTES_MAX       4096

struct http_server;

/* A request as its handler sees it. The handler must call http_request_answer, at once or later. */
struct http_request {
	char *method;
	char *path;  /* as sent: not decoded, without the query */
	char *query; /* as sent; NULL: none */
	char *if_match;
	char *content_type;
	char *body; /* a 0 byte follows; NULL: none */
	size_t body_bytes;
	/* Owned by the server. */
	struct http_private *private_part;
};

struct http_answer {
	int status;
	bool is_problem;  /* the body is an error: application/problem+json */
	char *taken_body; /* from malloc; NULL: none */
	size_t body_bytes;
	uint64_t generation;  /* the ETag; 0: none */
	char *taken_location; /* from malloc; NULL: none */
	char *taken_allow;    /* methods, with status 405, from malloc; NULL: none */
};

struct http_options {
	struct reactor *control;
	const char *socket_path; /* NULL: no Unix socket */
	const char *token_path;  /* file with the token, for has_tcp */
	bool has_tcp;
	struct net_addr tcp;
	void (*handle)(void *arg, struct http_request *request);
	void *arg;
};

struct http_error {
	char text[512]; /* names the thing and the remedy */
};

/* 0, or -errno with ret_error filled: then nothing was started. */
int http_server_start(const struct http_options *options, struct http_server **ret_server,
		      struct http_error *ret_error);
/* The address where TCP connections are accepted, for has_tcp. */
const struct net_addr *http_server_tcp_addr(const struct http_server *server);
/*
 * Accepts no new requests. Open requests are answered with 503; late answers of their handlers are
 * ignored. `stopped` is called when the server was freed, maybe from inside this call.
 */
void http_server_stop(struct http_server *server, void (*stopped)(void *arg), void *arg);

/* Must be called once for every request. Takes ownership of the taken_* fields. */
void http_request_answer(struct http_request *request, struct http_answer *answer);
/* The title of a status: "Not Found" for 404. */
const char *http_status_title(int status);
/* The body of an error as in RFC 9457, with "error" and "errors". For free(); NULL: out of
 * memory. */
char *http_problem_text(int status, const char *error);

/* ---- http_listen.c ------------------------------------------------------------------------------
 */

/*
 * Binds a Unix socket with mode 0600. Replaces a socket that no process answers on. Paths longer
 * than an address can hold work as well. 0, or -errno with ret_error filled.
 */
int http_listen_unix(const char *path, int *ret_fd, struct unix_name *ret_name,
		     struct http_error *ret_error);
int http_listen_tcp(const struct net_addr *addr, int *ret_fd, struct net_addr *ret_bound,
		    struct http_error *ret_error);
/* Reads and checks a bearer token; the caller frees it. 0, or -errno with ret_error filled. */
int http_token_load(const char *path, char **ret_token, struct http_error *ret_error);
/* Whether an Authorization header has this token. A wrong token takes as long as the right one. */
bool http_token_matches(const char *token, const char *authorization);

#endif
