/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that reads orders; see orders.h. It ends with the order "stop".
 */
#include "orders.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct reactor *orders_reactor;
static void (*orders_taker)(struct reactor_msg *msg);
static pthread_t orders_reader;

static void *orders_read(void *unused)
{
	bool is_stop = false;

	(void)unused;
	while (!is_stop) {
		struct order *order = calloc(1, sizeof(*order));

		if (!order)
			return NULL;
		if (!fgets(order->text, sizeof(order->text), stdin))
			snprintf(order->text, sizeof(order->text), "stop");
		order->text[strcspn(order->text, "\n")] = '\0';
		is_stop = strcmp(order->text, "stop") == 0;
		reactor_post(orders_reactor, &order->msg, orders_taker);
	}
	return NULL;
}

int orders_start(struct reactor *reactor, void (*on_order)(struct reactor_msg *msg))
{
	orders_reactor = reactor;
	orders_taker = on_order;
	return -pthread_create(&orders_reader, NULL, orders_read, NULL);
}

void orders_join(void)
{
	pthread_join(orders_reader, NULL);
}
