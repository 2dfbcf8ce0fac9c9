/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Intrusive doubly linked list. A node that is on no list points at itself, so that removing a node
 * twice is harmless and list_linked needs only the node.
 */
#ifndef WEFT_BASE_LIST_H
#define WEFT_BASE_LIST_H

#include "base/check.h"

#include <stdbool.h>

struct list {
	struct list *next;
	struct list *prev;
};

static inline void list_init(struct list *node)
{
	node->next = node;
	node->prev = node;
}

static inline bool list_empty(const struct list *head)
{
	return head->next == head;
}

/* True for a node that is on some list. */
static inline bool list_linked(const struct list *node)
{
	return node->next != node;
}

static inline void list_insert_before(struct list *at, struct list *node)
{
	node->prev = at->prev;
	node->next = at;
	at->prev->next = node;
	at->prev = node;
}

static inline void list_push_back(struct list *head, struct list *node)
{
	list_insert_before(head, node);
}

static inline void list_push_front(struct list *head, struct list *node)
{
	list_insert_before(head->next, node);
}

static inline void list_remove(struct list *node)
{
	node->next->prev = node->prev;
	node->prev->next = node->next;
	list_init(node);
}

static inline struct list *list_pop_front(struct list *head)
{
	struct list *node = head->next;

	if (node == head)
		return NULL;
	list_remove(node);
	return node;
}

/* Moves every node of `from` behind the nodes of `to`; `from` is empty afterwards. */
static inline void list_splice_back(struct list *to, struct list *from)
{
	if (list_empty(from))
		return;
	from->next->prev = to->prev;
	to->prev->next = from->next;
	from->prev->next = to;
	to->prev = from->prev;
	list_init(from);
}

#define list_entry(node, type, member) container_of(node, type, member)

#define list_for_each(pos, head)                                                                   \
	for (struct list *pos = (head)->next; pos != (head); pos = pos->next)

/* Allows the removal of `pos`, but not of its neighbour. */
#define list_for_each_safe(pos, head)                                                              \
	for (struct list *pos = (head)->next, *pos##_next = pos->next; pos != (head);              \
	     pos = pos##_next, pos##_next = pos->next)

#endif
