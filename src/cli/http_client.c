/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.1 as far as `weft ctl` needs it (RFC 9112): a request with Connection: close, and an
 * answer of a known length or until the end of the stream. Blocking; waits for each part of the
 * answer are limited. Runs on the caller's thread.
 */
#include "cli/http_client.h"

#include "base/net_addr.h"
#include "base/unix_socket.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ANSWER_TIMEOUT_MS 120000 /* opening media may take half a minute */
#define ANSWER_BYTES_MAX  (256u * 1024 * 1024)

static int tcp_connect(const struct http_client *client, int *ret_fd)
{
	struct net_addr addr;
	int res = net_addr_resolve(client->host, client->port, &addr);
	int fd;

	if (res < 0)
		return res;
	fd = socket(addr.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&addr.storage, addr.len_bytes) != 0) {
		res = -errno;
		if (fd >= 0)
			close(fd);
		return res;
	}
	*ret_fd = fd;
	return 0;
}

/* Sends all bytes. A peer that answers and closes before it has read everything is not an error
 * here. */
static int bytes_send(int fd, const char *bytes, size_t len_bytes)
{
	while (len_bytes > 0) {
		ssize_t n = send(fd, bytes, len_bytes, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EPIPE || errno == ECONNRESET ? 0 : -errno;
		bytes += n;
		len_bytes -= (size_t)n;
	}
	return 0;
}

static int question_send(int fd, const struct http_client *client,
			 const struct http_question *question)
{
	size_t body_bytes = question->body ? strlen(question->body) : 0;
	char match[48] = "", *head = NULL;
	int res;

	if (question->generation > 0)
		snprintf(match, sizeof(match), "If-Match: \"%llu\"\r\n",
			 (unsigned long long)question->generation);
	if (asprintf(&head,
		     "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n%s%s%s%s%s"
		     "Content-Length: %zu\r\n\r\n",
		     question->method, question->path, client->host ? client->host : "weft",
		     client->token ? "Authorization: Bearer " : "",
		     client->token ? client->token : "", client->token ? "\r\n" : "", match,
		     question->body ? "Content-Type: application/json\r\n" : "", body_bytes) < 0)
		return -ENOMEM;
	res = bytes_send(fd, head, strlen(head));
	free(head);
	return res < 0 || !question->body ? res : bytes_send(fd, question->body, body_bytes);
}

/* Returns the start of the body, or NULL while the header is incomplete. */
static char *header_end(char *text)
{
	char *end = strstr(text, "\r\n\r\n");

	return end ? end + 4 : NULL;
}

/* Returns the Content-Length; SIZE_MAX: none, the body ends with the stream. */
static size_t content_length(const char *text, const char *end)
{
	static const char name[] = "content-length:";

	for (const char *line = strstr(text, "\r\n"); line && line + 4 < end;
	     line = strstr(line + 2, "\r\n")) {
		if (strncasecmp(line + 2, name, strlen(name)) == 0)
			return strtoull(line + 2 + strlen(name), NULL, 10);
	}
	return SIZE_MAX;
}

/* Reads the whole answer. 0 or -errno; in either case the caller frees *ret_text. */
static int answer_receive(int fd, char **ret_text, size_t *ret_bytes)
{
	size_t used = 0, room = 0, want = SIZE_MAX;
	char *text = NULL;

	for (;;) {
		struct pollfd wait = {.fd = fd, .events = POLLIN};
		ssize_t n;
		char *body;

		if (used + 1 >= room) {
			char *larger = realloc(text, room = room > 0 ? 2 * room : 65536);

			if (!larger || room > ANSWER_BYTES_MAX)
				return *ret_text = larger ? larger : text, -ENOMEM;
			text = larger;
		}
		*ret_text = text;
		if (poll(&wait, 1, ANSWER_TIMEOUT_MS) == 0)
			return -ETIMEDOUT;
		n = recv(fd, text + used, room - used - 1, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		used += (size_t)n;
		text[used] = 0;
		*ret_bytes = used;
		body = header_end(text);
		if (body && want == SIZE_MAX)
			want = content_length(text, body);
		if (n == 0 || (body && want != SIZE_MAX && used - (size_t)(body - text) >= want))
			return body ? 0 : -EPROTO;
	}
}

static int answer_parse(char *text, size_t text_bytes, struct http_reply *ret_reply)
{
	char *body = header_end(text);
	int status;

	if (sscanf(text, "HTTP/1.%*d %d", &status) != 1 || status < 100 || status > 599)
		return -EPROTO;
	ret_reply->status = status;
	ret_reply->body_bytes = text_bytes - (size_t)(body - text);
	memmove(text, body, ret_reply->body_bytes + 1);
	ret_reply->body = text;
	return 0;
}

int http_client_ask(const struct http_client *client, const struct http_question *question,
		    struct http_reply *ret_reply, char error[HTTP_CLIENT_ERROR_BYTES])
{
	size_t text_bytes = 0;
	char *text = NULL;
	int fd = -1;
	int res = client->socket_path ? unix_socket_connect(client->socket_path, &fd)
				      : tcp_connect(client, &fd);

	*ret_reply = (struct http_reply){0};
	if (res < 0) {
		snprintf(error, HTTP_CLIENT_ERROR_BYTES, "%s", strerror(-res));
		return res;
	}
	res = question_send(fd, client, question);
	if (res == 0)
		res = answer_receive(fd, &text, &text_bytes);
	if (res == 0)
		res = answer_parse(text, text_bytes, ret_reply);
	close(fd);
	if (res < 0) {
		free(text);
		snprintf(error, HTTP_CLIENT_ERROR_BYTES, "%s",
			 res == -EPROTO ? "the answer is not HTTP" : strerror(-res));
	}
	return res;
}
