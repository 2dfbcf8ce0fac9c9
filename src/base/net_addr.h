/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A socket address and its string forms: "127.0.0.1:4420", "[::1]:4420". Numeric only; names are
 * resolved on the control thread by net_addr_resolve.
 */
#ifndef WEFT_BASE_NET_ADDR_H
#define WEFT_BASE_NET_ADDR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define NET_ADDR_TEXT_BYTES 64

struct net_addr {
	struct sockaddr_storage storage;
	socklen_t len_bytes;
};

/* Parses "ADDR:PORT", or "ADDR" with the default port. 0 or -EINVAL. */
int net_addr_parse(const char *text, uint16_t default_port, struct net_addr *ret_addr);
/* Resolves a host name. May block. 0 or -EHOSTUNREACH. */
int net_addr_resolve(const char *host, uint16_t port, struct net_addr *ret_addr);
/* Always terminates `text`; returns it. */
const char *net_addr_format(const struct net_addr *addr, char text[NET_ADDR_TEXT_BYTES]);
/* The address without the port; IPv6 without brackets. */
const char *net_addr_format_host(const struct net_addr *addr, char text[NET_ADDR_TEXT_BYTES]);
/* For a family other than IPv4 and IPv6, sets an empty address, which equals no host. */
void net_addr_from(const struct sockaddr *from, struct net_addr *ret_addr);
uint16_t net_addr_port(const struct net_addr *addr);
bool net_addr_is_ipv6(const struct net_addr *addr);
bool net_addr_same_host(const struct net_addr *a, const struct net_addr *b);
/* 0.0.0.0 or ::, meaning "every local address". */
bool net_addr_is_any(const struct net_addr *addr);

#endif
