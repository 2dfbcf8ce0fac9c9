/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fields of the document, one table per object: a row says what a field is called, what it may
 * be, where its value is kept, what it means and whether it can change while the target runs. From
 * the rows come the reader, the writer, the comparison and the copy into a snapshot (fields.c,
 * fields_write.c), what the next document may change (config_transition.c), the rules of --merge
 * (config_merge.c), the options and the show commands of `weft ctl` (cli/ctl_fields.c,
 * cli/ctl_show.c), and what the schemas and manual pages must have (tools/fields).
 *
 * A new field is a member of the object's struct and a row. Rows stand in the order in which the
 * document is written. What a row cannot say is a function in it.
 *
 * Control thread only; the tables themselves are constant.
 */
#ifndef WEFT_CONFIG_FIELDS_H
#define WEFT_CONFIG_FIELDS_H

#include "config/config_json.h"

#include <stddef.h>

/* How a value is kept; what is left out of the written document stands in brackets. */
enum field_kind {
	FIELD_FUNCTIONS, /* its functions know */
	FIELD_U16,       /* min to max */
	FIELD_U32,
	FIELD_BOOL,
	FIELD_WORD,  /* an enumeration: its value is the index of the word */
	FIELD_CHARS, /* char[max + 1]: 1 to max printable characters [empty] */
	FIELD_TEXT,  /* char *, allocated: at most max bytes [NULL] */
	FIELD_ID,    /* 16 bytes [all zero] */
	FIELD_NQNS,  /* up to max different NQNs, allocated, and their count */
};

/* What becomes of a document that gives a field of a known element another value. */
enum field_change {
	FIELD_LIVE, /* taken over while the target runs */
	/* Refused while the target runs, with all that is below the field: restart the target with
	 * the document. */
	FIELD_FIXED,
	FIELD_NAMES, /* the field names its element: with another value it is another element */
};

struct config_field;
struct config_merge;
struct config_object;

/* For whom a document is written. */
struct config_writing {
	const struct config *config; /* ports only: knows which subsystems are implied */
	bool is_edit;                /* with the identity that memory got for this run */
};

typedef void (*field_parse_fn)(struct config_cursor *at, const json_t *object,
			       const struct config_field *field, void *to);
typedef json_t *(*field_write_fn)(const struct config_writing *writing,
				  const struct config_field *field, const void *from);

/* `more`, which has the field, over the saved object (config_merge.h). */
typedef void (*field_merge_fn)(struct config_merge *merge, const struct config_field *field,
			       json_t *saved, const json_t *more);

struct config_field {
	const char *key;
	const char *help; /* one line: for `weft ctl --help`, and where a schema or page has none */
	enum field_kind kind;
	enum field_change change;
	size_t offset;       /* of the value */
	size_t count_offset; /* FIELD_NQNS: of the unsigned that counts them */
	uint32_t min, max;
	const char *const *words; /* FIELD_WORD: may have holes (NULL) */
	unsigned word_count;
	/* The default: of numbers, booleans and words the number, of others the text. */
	uint32_t number;
	const char *text;
	const char *absent;  /* what a field without a fixed default is when it is left out */
	const char *missing; /* required; the end of "is missing; " */
	/* NULL: as the kind does. check follows parse, whether the key is there or not. */
	field_parse_fn parse;
	void (*check)(struct config_cursor *at, const json_t *object, void *to);
	field_write_fn write;
	bool (*is_written)(const struct config_writing *writing, const void *from);
	field_merge_fn merge;
	void (*sort)(void *of);
	void (*release)(void *of);
	/* Where the snapshot has the same value; 0 bytes: nowhere, or daemon/ puts it there. */
	size_t served_offset, served_bytes;
	/* Of `weft ctl`: the option, where it is not the key with dashes, and what help calls the
	 * value. Without an argument there is an option only for booleans and words. */
	const char *option, *argument;
	const char *type;                   /* in JSON, where the kind does not tell */
	const struct config_object *object; /* whose fields the value, or each element, has */
};

struct config_object {
	const char *name;
	size_t bytes;              /* of the struct */
	void (*prepare)(void *to); /* defaults that another layer knows; NULL: none */
	const struct config_field *fields;
	unsigned field_count;
	/* The element of a saved list that an element without a name means, none of those whose
	 * names are in `found`. NULL: elements have names, or there is one object at most. */
	json_t *(*find)(const json_t *list, const json_t *found, const json_t *element);
};

extern const struct config_object config_root_object;      /* struct config: the document */
extern const struct config_object config_subsystem_object; /* struct config_subsystem */
extern const struct config_object config_pool_object;      /* struct config_subsystem too */
extern const struct config_object config_ns_object;        /* struct config_ns */
extern const struct config_object config_port_object;      /* struct config_port */
extern const struct config_object config_ana_object;       /* struct ana_group_state */
extern const struct config_object config_limits_object;    /* struct target_limits */
extern const struct config_object config_cluster_object;   /* struct config_cluster */
extern const struct config_object config_peer_object;      /* struct peer_config */

/* ---- rows ------------------------------------------------------------------------------------ */

/* A member of the wrong type does not compile. */
#define FIELD_AT(type_, member, wanted)                                                            \
	.offset = offsetof(type_, member) +                                                        \
		  0 * sizeof(char[_Generic(&((type_ *)0)->member, wanted * : 1)])
#define FIELD_IS_U16(type_, member, min_, max_)                                                    \
	.kind = FIELD_U16, .min = (min_), .max = (max_), FIELD_AT(type_, member, uint16_t)
#define FIELD_IS_U32(type_, member, min_, max_)                                                    \
	.kind = FIELD_U32, .min = (min_), .max = (max_), FIELD_AT(type_, member, uint32_t)
#define FIELD_IS_BOOL(type_, member) .kind = FIELD_BOOL, FIELD_AT(type_, member, bool)
#define FIELD_IS_TEXT(type_, member, max_)                                                         \
	.kind = FIELD_TEXT, .max = (max_), FIELD_AT(type_, member, char *)
#define FIELD_IS_CHARS(type_, member)                                                              \
	.kind = FIELD_CHARS, .max = sizeof(((type_ *)0)->member) - 1,                              \
	.offset = offsetof(type_, member)
#define FIELD_IS_WORD(type_, member, enum_, words_)                                                \
	.kind = FIELD_WORD, .words = (words_), .word_count = ARRAY_LEN(words_),                    \
	FIELD_AT(type_, member, enum_)
#define FIELD_IS_NQNS(type_, member, count_, max_)                                                 \
	.kind = FIELD_NQNS, .max = (max_), .offset = offsetof(type_, member),                      \
	.count_offset = offsetof(type_, count_)
#define FIELD_SERVED(type_, member)                                                                \
	.served_offset = offsetof(type_, member), .served_bytes = sizeof(((type_ *)0)->member)

/* ---- what the rows do ------------------------------------------------------------------------ */

/* The defaults, into a struct that is all zero. */
void config_object_init(const struct config_object *object, void *to);
/* What is wrong leaves an error and the default. False: the value is no object at all. */
bool config_object_parse(struct config_cursor *at, const struct config_object *object,
			 const json_t *json, void *to);
/* A new object; NULL when out of memory. */
json_t *config_object_write(const struct config_writing *writing,
			    const struct config_object *object, const void *from);
/* Whether both would be written alike. */
bool config_object_same(const struct config_object *object, const void *a, const void *b);
/* The field that names an element; NULL: there is one object of this kind at most. */
const struct config_field *config_object_name(const struct config_object *object);
/* The first field that is fixed while the target runs, and differs; NULL: none does. */
const struct config_field *config_object_fixed(const struct config_object *object, const void *from,
					       const void *to);
/* Lists ascend afterwards. */
void config_object_sort(const struct config_object *object, void *of);
/* Frees what the fields point at. */
void config_object_release(const struct config_object *object, void *of);
/* Copies the fields that the snapshot has too into its struct, and back. */
void config_object_serve(const struct config_object *object, const void *from, void *served);
void config_object_from_served(const struct config_object *object, const void *served, void *to);
/* The default as it would be written; NULL: there is none, or no memory. */
json_t *config_field_default(const struct config_object *object, const struct config_field *field);

/* The index of a word, or -1; the word of an index, or "unknown". */
int config_word_find(const char *const *words, unsigned count, const char *text);
const char *config_word_name(const char *const *words, unsigned count, unsigned index);
/* Takes the value over. False when there was no memory for it or its place. */
bool config_put(json_t *object, const char *key, json_t *taken_value);
/* A list of them; NULL when out of memory. */
json_t *config_names_to_json(char (*names)[NVME_NQN_BYTES], unsigned count);

#endif
