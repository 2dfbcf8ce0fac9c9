/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which connection of the REST API is closed when there are too many: an address above its share
 * loses its own oldest stranger, a full listener the oldest stranger of the address with the most
 * connections, then the oldest idle connection. Busy connections and those of another listener are
 * never closed.
 */
#include "api/http_conn.h"

#include "api/http.h"
#include "tap.h"

#include <stdlib.h>

#define COUNT (HTTP_CONNECTIONS_MAX + 2)

static const char tcp, unix_socket;
static struct http_conn conns[COUNT];
static unsigned used;
static struct list list;

static void begin(void)
{
	used = 0;
	list_init(&list);
}

static struct http_conn *add(const char *address, bool is_trusted)
{
	struct http_conn *conn = &conns[used++];

	*conn = (struct http_conn){.listener = address ? &tcp : &unix_socket,
				   .needs_token = address != NULL,
				   .is_trusted = is_trusted};
	if (address)
		EXPECT_EQ(0, net_addr_parse(address, 1, &conn->peer));
	list_push_back(&list, &conn->node);
	return conn;
}

static struct http_conn *newest(const char *address)
{
	struct http_conn *conn = add(address, false);

	return http_conn_victim(&list, conn);
}

static void an_address_has_a_share(void)
{
	struct http_conn *first;

	begin();
	add("10.0.0.1", true);
	first = add("10.0.0.1", false);
	for (unsigned i = 2; i < HTTP_STRANGERS_PER_ADDRESS; i++)
		add("10.0.0.1", false);
	EXPECT(newest("10.0.0.1") == NULL);
	EXPECT(newest("10.0.0.2") == NULL);
	EXPECT(newest("10.0.0.1") == first);
}

/* Addresses with two strangers each, one with three, and the operator's. */
static void a_full_one_takes_from_the_greediest(void)
{
	struct http_conn *greedy = NULL;
	char address[32];

	begin();
	add("10.0.0.1", true);
	while (used < HTTP_CONNECTIONS_MAX - 3) {
		snprintf(address, sizeof(address), "10.0.1.%u", used / 2 + 1);
		add(address, false);
	}
	greedy = add("10.0.2.1", false);
	add("10.0.2.1", false);
	add("10.0.2.1", false);
	EXPECT_EQ(HTTP_CONNECTIONS_MAX, used);
	EXPECT(newest("10.0.3.1") == greedy);
}

static void without_strangers_an_idle_one_goes(void)
{
	struct http_conn *idle;

	begin();
	add("10.0.0.1", true)->is_busy = true;
	idle = add("10.0.0.1", true);
	while (used < HTTP_CONNECTIONS_MAX)
		add("10.0.0.1", true);
	EXPECT(newest("10.0.0.2") == idle);
	for (unsigned i = 0; i < used - 1; i++)
		conns[i].is_busy = true;
	/* All others are busy: the newest connection is closed. */
	EXPECT(http_conn_victim(&list, &conns[used - 1]) == &conns[used - 1]);
}

static void listeners_do_not_count_each_other(void)
{
	struct http_conn *first;

	begin();
	for (unsigned i = 0; i < HTTP_CONNECTIONS_MAX; i++)
		add("10.0.0.1", true);
	EXPECT(newest(NULL) == NULL);
	begin();
	first = add(NULL, true);
	while (used < HTTP_CONNECTIONS_MAX)
		add(NULL, true);
	EXPECT(newest("10.0.0.1") == NULL);
	EXPECT(newest(NULL) == first);
}

int main(void)
{
	TAP_RUN(an_address_has_a_share);
	TAP_RUN(a_full_one_takes_from_the_greediest);
	TAP_RUN(without_strangers_an_idle_one_goes);
	TAP_RUN(listeners_do_not_count_each_other);
	return tap_end();
}
