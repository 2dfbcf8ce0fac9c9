/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Socket addresses and their string forms. IPv6 is in brackets when a port follows, with an
 * optional scope ("fe80::1%eth0").
 *
 * Any thread. Only net_addr_resolve may block (name service), so it belongs on the control thread.
 */
#include "base/net_addr.h"

#include "base/text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

static void net_addr_set_v4(struct net_addr *addr, struct in_addr host, uint16_t port)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = host};

	memset(addr, 0, sizeof(*addr));
	memcpy(&addr->storage, &v4, sizeof(v4));
	addr->len_bytes = sizeof(v4);
}

static struct sockaddr_in net_addr_v4(const struct net_addr *addr)
{
	struct sockaddr_in v4;

	memcpy(&v4, &addr->storage, sizeof(v4));
	return v4;
}

static struct sockaddr_in6 net_addr_v6(const struct net_addr *addr)
{
	struct sockaddr_in6 v6;

	memcpy(&v6, &addr->storage, sizeof(v6));
	return v6;
}

static int net_addr_set_v6(struct net_addr *addr, const char *host, uint16_t port)
{
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	char bare[NET_ADDR_TEXT_BYTES];
	char *scope;

	if (text_copy(bare, sizeof(bare), host) >= sizeof(bare))
		return -EINVAL;
	scope = strchr(bare, '%');
	if (scope) {
		uint64_t number;

		*scope++ = 0;
		v6.sin6_scope_id = if_nametoindex(scope);
		if (v6.sin6_scope_id == 0) {
			if (text_parse_u64(scope, UINT32_MAX, &number))
				return -EINVAL;
			v6.sin6_scope_id = (uint32_t)number;
		}
	}
	if (inet_pton(AF_INET6, bare, &v6.sin6_addr) != 1)
		return -EINVAL;
	memset(addr, 0, sizeof(*addr));
	memcpy(&addr->storage, &v6, sizeof(v6));
	addr->len_bytes = sizeof(v6);
	return 0;
}

/* Splits "HOST", "HOST:PORT", "[V6]", "[V6]:PORT" or a bare V6 in place. *ret_port is NULL without
 * a port. */
static int net_addr_split(char *text, char **ret_host, char **ret_port)
{
	char *colon, *bracket;

	*ret_port = NULL;
	if (text[0] == '[') {
		bracket = strchr(text, ']');
		if (!bracket)
			return -EINVAL;
		*bracket = 0;
		*ret_host = text + 1;
		if (bracket[1] == ':')
			*ret_port = bracket + 2;
		else if (bracket[1] != 0)
			return -EINVAL;
		return strchr(*ret_host, ':') ? 0 : -EINVAL;
	}
	*ret_host = text;
	colon = strchr(text, ':');
	if (colon && !strchr(colon + 1, ':')) {
		*colon = 0;
		*ret_port = colon + 1;
	}
	return 0;
}

int net_addr_parse(const char *text, uint16_t default_port, struct net_addr *ret_addr)
{
	char copy[NET_ADDR_TEXT_BYTES + 16];
	char *host, *port_text;
	uint64_t port = default_port;
	struct in_addr v4;

	if (text_copy(copy, sizeof(copy), text) >= sizeof(copy))
		return -EINVAL;
	if (net_addr_split(copy, &host, &port_text))
		return -EINVAL;
	if (port_text && text_parse_u64(port_text, UINT16_MAX, &port))
		return -EINVAL;
	if (strchr(host, ':'))
		return net_addr_set_v6(ret_addr, host, (uint16_t)port);
	if (inet_pton(AF_INET, host, &v4) != 1)
		return -EINVAL;
	net_addr_set_v4(ret_addr, v4, (uint16_t)port);
	return 0;
}

int net_addr_resolve(const char *host, uint16_t port, struct net_addr *ret_addr)
{
	struct addrinfo hints = {
		.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
	struct addrinfo *found;
	char service[8];

	snprintf(service, sizeof(service), "%u", port);
	if (getaddrinfo(host, service, &hints, &found))
		return -EHOSTUNREACH;
	memset(ret_addr, 0, sizeof(*ret_addr));
	memcpy(&ret_addr->storage, found->ai_addr, found->ai_addrlen);
	ret_addr->len_bytes = found->ai_addrlen;
	freeaddrinfo(found);
	return 0;
}

const char *net_addr_format_host(const struct net_addr *addr, char text[NET_ADDR_TEXT_BYTES])
{
	struct sockaddr_in6 v6;
	struct sockaddr_in v4;

	text_copy(text, NET_ADDR_TEXT_BYTES, "unknown");
	if (addr->storage.ss_family == AF_INET) {
		v4 = net_addr_v4(addr);
		inet_ntop(AF_INET, &v4.sin_addr, text, NET_ADDR_TEXT_BYTES);
	} else if (addr->storage.ss_family == AF_INET6) {
		v6 = net_addr_v6(addr);
		inet_ntop(AF_INET6, &v6.sin6_addr, text, NET_ADDR_TEXT_BYTES);
		if (v6.sin6_scope_id != 0) {
			size_t used = strlen(text);

			snprintf(text + used, NET_ADDR_TEXT_BYTES - used, "%%%u", v6.sin6_scope_id);
		}
	}
	return text;
}

/* "unix:" and the path. A long path keeps its end, which is the more specific part. */
static const char *format_unix(const struct net_addr *addr, char text[NET_ADDR_TEXT_BYTES])
{
	const size_t shown_max = 55; /* in addition to "unix:..." */
	char path[sizeof(struct sockaddr_un) + 1] = {0};
	size_t len_bytes;

	if (addr->len_bytes > offsetof(struct sockaddr_un, sun_path) &&
	    addr->len_bytes <= sizeof(struct sockaddr_un))
		memcpy(path,
		       (const uint8_t *)&addr->storage + offsetof(struct sockaddr_un, sun_path),
		       addr->len_bytes - offsetof(struct sockaddr_un, sun_path));
	len_bytes = strlen(path);
	if (len_bytes > shown_max)
		snprintf(text, NET_ADDR_TEXT_BYTES, "unix:...%.55s", path + len_bytes - shown_max);
	else
		snprintf(text, NET_ADDR_TEXT_BYTES, "unix:%.55s", path);
	return text;
}

const char *net_addr_format(const struct net_addr *addr, char text[NET_ADDR_TEXT_BYTES])
{
	char host[NET_ADDR_TEXT_BYTES];
	const char *shape = net_addr_is_ipv6(addr) ? "[" : "";

	if (addr->storage.ss_family == AF_UNIX)
		return format_unix(addr, text);
	net_addr_format_host(addr, host);
	/* The longest is 1 + 45 + 11 + 1 + 6 characters; no real scope has 11. */
	snprintf(text, NET_ADDR_TEXT_BYTES, "%s%.54s%s:%u", shape, host, *shape ? "]" : "",
		 net_addr_port(addr));
	return text;
}

void net_addr_from(const struct sockaddr *from, struct net_addr *ret_addr)
{
	*ret_addr = (struct net_addr){.len_bytes = sizeof(struct sockaddr_in)};
	if (from->sa_family == AF_INET6)
		ret_addr->len_bytes = sizeof(struct sockaddr_in6);
	else if (from->sa_family != AF_INET)
		return;
	memcpy(&ret_addr->storage, from, ret_addr->len_bytes);
}

uint16_t net_addr_port(const struct net_addr *addr)
{
	if (addr->storage.ss_family == AF_INET)
		return ntohs(net_addr_v4(addr).sin_port);
	if (addr->storage.ss_family == AF_INET6)
		return ntohs(net_addr_v6(addr).sin6_port);
	return 0;
}

bool net_addr_is_ipv6(const struct net_addr *addr)
{
	return addr->storage.ss_family == AF_INET6;
}

bool net_addr_same_host(const struct net_addr *a, const struct net_addr *b)
{
	if (a->storage.ss_family != b->storage.ss_family)
		return false;
	if (a->storage.ss_family == AF_INET)
		return net_addr_v4(a).sin_addr.s_addr == net_addr_v4(b).sin_addr.s_addr;
	if (a->storage.ss_family == AF_INET6) {
		struct sockaddr_in6 x = net_addr_v6(a), y = net_addr_v6(b);

		return memcmp(&x.sin6_addr, &y.sin6_addr, sizeof(x.sin6_addr)) == 0 &&
		       x.sin6_scope_id == y.sin6_scope_id;
	}
	return false;
}

bool net_addr_is_any(const struct net_addr *addr)
{
	if (addr->storage.ss_family == AF_INET)
		return net_addr_v4(addr).sin_addr.s_addr == htonl(INADDR_ANY);
	if (addr->storage.ss_family == AF_INET6) {
		struct sockaddr_in6 v6 = net_addr_v6(addr);

		return memcmp(&v6.sin6_addr, &in6addr_any, sizeof(v6.sin6_addr)) == 0;
	}
	return false;
}
