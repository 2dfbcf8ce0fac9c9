/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The addresses of the REST API and their protection: the Unix socket, protected by its mode, and a
 * TCP address, protected by a bearer token (RFC 6750, section 2.1).
 *
 * Control thread, at the start; only http_token_matches runs on the server's own thread.
 */
#include "api/http.h"

#include "base/unix_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define LISTEN_BACKLOG 128

__attribute__((format(printf, 3, 4))) static int fail(struct http_error *ret_error, int code,
						      const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(ret_error->text, sizeof(ret_error->text), format, args);
	va_end(args);
	return code;
}

/* ---- the Unix socket ------------------------------------------------------------------------ */

int http_listen_unix(const char *path, int *ret_fd, struct unix_name *ret_name,
		     struct http_error *ret_error)
{
	int res = unix_socket_listen(path, LISTEN_BACKLOG, ret_fd, ret_name);

	switch (res) {
	case 0:
		return 0;
	case -EEXIST:
		return fail(ret_error, res,
			    "%s exists and is not a socket; remove it or choose another path with "
			    "--api-socket",
			    path);
	case -EADDRINUSE:
		return fail(ret_error, res,
			    "%s: another process listens on this socket; stop that process or "
			    "choose another path with --api-socket",
			    path);
	case -ENAMETOOLONG:
		return fail(ret_error, res,
			    "%s: %s; choose a shorter path with --api-socket, or none", path,
			    strerror(-res));
	default:
		return fail(ret_error, res, "cannot listen on %s: %s", path, strerror(-res));
	}
}

/* ---- TCP ------------------------------------------------------------------------------------ */

int http_listen_tcp(const struct net_addr *addr, int *ret_fd, struct net_addr *ret_bound,
		    struct http_error *ret_error)
{
	int fd = socket(addr->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	char text[NET_ADDR_TEXT_BYTES];
	int one = 1;
	int res;

	*ret_bound = *addr;
	ret_bound->len_bytes = sizeof(ret_bound->storage);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
	    bind(fd, (const struct sockaddr *)&addr->storage, addr->len_bytes) != 0 ||
	    listen(fd, LISTEN_BACKLOG) != 0 ||
	    getsockname(fd, (struct sockaddr *)&ret_bound->storage, &ret_bound->len_bytes) != 0) {
		res = fail(ret_error, -errno, "--api-listen: cannot listen on %s: %s",
			   net_addr_format(addr, text), strerror(errno));
		if (fd >= 0)
			close(fd);
		return res;
	}
	*ret_fd = fd;
	return 0;
}

/* ---- the token ------------------------------------------------------------------------------ */

static int token_judge(const char *path, char *token, ssize_t len, struct http_error *error)
{
	while (len > 0 && (token[len - 1] == '\n' || token[len - 1] == '\r'))
		len--;
	token[len] = 0;
	if (len < HTTP_TOKEN_BYTES_MIN)
		return fail(error, -EINVAL,
			    "%s: the token has %zd characters and needs %d at least; make one "
			    "with: openssl rand -hex 32",
			    path, len, HTTP_TOKEN_BYTES_MIN);
	if (len >= HTTP_TOKEN_BYTES_MAX)
		return fail(error, -EINVAL, "%s: the token has more than %d characters", path,
			    HTTP_TOKEN_BYTES_MAX - 1);
	for (ssize_t i = 0; i < len; i++) {
		if (token[i] <= ' ' || token[i] > '~')
			return fail(error, -EINVAL,
				    "%s: character %zd of the token is not printable ASCII; make "
				    "one with: openssl rand -hex 32",
				    path, i + 1);
	}
	return 0;
}

int http_token_load(const char *path, char **ret_token, struct http_error *ret_error)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char *token = malloc(HTTP_TOKEN_BYTES_MAX + 1);
	struct stat info;
	ssize_t len = 0;
	int res = 0;

	if (fd < 0)
		res = fail(ret_error, -errno, "--api-token-file %s: %s", path, strerror(errno));
	else if (!token)
		res = fail(ret_error, -ENOMEM, "out of memory");
	else if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
		res = fail(ret_error, -EINVAL, "--api-token-file %s: not a regular file", path);
	else if ((info.st_mode & 07) != 0)
		res = fail(ret_error, -EPERM,
			   "--api-token-file %s: other users can access the file (mode %04o); run "
			   "chmod 600 on it",
			   path, info.st_mode & 07777);
	else if ((len = read(fd, token, HTTP_TOKEN_BYTES_MAX)) < 0)
		res = fail(ret_error, -errno, "--api-token-file %s: %s", path, strerror(errno));
	else
		res = token_judge(path, token, len, ret_error);
	if (fd >= 0)
		close(fd);
	if (res < 0) {
		free(token);
		token = NULL;
	}
	*ret_token = token;
	return res;
}

bool http_token_matches(const char *token, const char *authorization)
{
	static const char scheme[] = "Bearer ";
	unsigned char want[SHA256_DIGEST_LENGTH], got[SHA256_DIGEST_LENGTH];

	if (!authorization || strncasecmp(authorization, scheme, strlen(scheme)) != 0)
		return false;
	authorization += strlen(scheme);
	/* Compares digests, so that the time reveals neither content nor length of the token. */
	SHA256((const unsigned char *)token, strlen(token), want);
	SHA256((const unsigned char *)authorization, strlen(authorization), got);
	return CRYPTO_memcmp(want, got, sizeof(want)) == 0;
}
