/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fields of the document, one table per object. A row defines a field's key, its valid values,
 * where the value is stored, its meaning, and whether it can change while the target runs. The rows
 * produce the reader, the writer, the comparison and the copy into a snapshot (fields.c,
 * fields_write.c), what the next document may change (config_transition.c), the rules of --merge
 * (config_merge.c), options and show commands of `weft ctl` (cli/ctl_fields.c, cli/ctl_show.c), and
 * what schemas and manual pages must have (tools/fields).
 *
 * To add a field, add a member to the object's struct and a row. Rows are in the order in which the
 * document is written. A row has functions for what it cannot express otherwise. Control thread
 * only; the tables are constant.
 */
#ifndef WEFT_CONFIG_FIELDS_H
#define WEFT_CONFIG_FIELDS_H

#include "config/config_json.h"

#include <stddef.h>

/* How a value is stored. [x]: a value of x is left out of the written document. */
enum field_kind {
	FIELD_FUNCTIONS, /* the row's functions parse and write it */
	FIELD_U16,       /* min to max, like FIELD_U32 */
	FIELD_U32,
	FIELD_BOOL,
	FIELD_WORD,  /* an enumeration: its value is the word's index */
	FIELD_CHARS, /* char[max + 1]: 1 to max printable characters [empty] */
	FIELD_TEXT,  /* char *, allocated: at most max bytes [NULL] */
	FIELD_ID,    /* 16 bytes [all zeroes] */
	FIELD_NQNS,  /* allocated array of up to max distinct NQNs, and their count */
};

/* What happens to a document that gives a field of a known element another value. */
enum field_change {
	FIELD_LIVE, /* applied while the target runs */
	/* Refused while the target runs, as are changes of all fields below it. Restart the target
	 * with the document. */
	FIELD_FIXED,
	FIELD_NAMES, /* names the element: another value means another element */
};

struct config_field;
struct config_merge;
struct config_object;

/* The purpose of a written document. */
struct config_writing {
	const struct config *config; /* to recognize implied subsystems; needed for ports only */
	bool is_edit;                /* include the identity that memory media got for this run */
};

typedef void (*field_parse_fn)(struct config_cursor *at, const json_t *object,
			       const struct config_field *field, void *to);
typedef json_t *(*field_write_fn)(const struct config_writing *writing,
				  const struct config_field *field, const void *from);

/* Merges the field of `more`, which is present, into the saved object (config_merge.h). */
typedef void (*field_merge_fn)(struct config_merge *merge, const struct config_field *field,
			       json_t *saved, const json_t *more);

struct config_field {
	const char *key;
	const char *help; /* one line: for `weft ctl --help`; default for schemas and pages */
	enum field_kind kind;
	enum field_change change;
	size_t offset;       /* of the value */
	size_t count_offset; /* FIELD_NQNS: of the unsigned with their count */
	uint32_t min, max;
	const char *const *words; /* FIELD_WORD: entries may be NULL */
	unsigned word_count;
	/* The default: `number` for numbers, booleans and words, `text` for others. */
	uint32_t number;
	const char *text;
	const char *absent;  /* description of a default that is not fixed */
	const char *missing; /* the field is required; ends the error "is missing; " */
	/* NULL: by kind. check follows parse, whether or not the key is present. */
	field_parse_fn parse;
	void (*check)(struct config_cursor *at, const json_t *object, void *to);
	field_write_fn write;
	bool (*is_written)(const struct config_writing *writing, const void *from);
	field_merge_fn merge;
	void (*sort)(void *of);
	void (*release)(void *of);
	/* Place of the same value in the snapshot. 0 bytes: not copied here; daemon/ may fill it
	 * in. */
	size_t served_offset, served_bytes;
	/* For `weft ctl`: the option if it is not the key with dashes, and the value's name in its
	 * help. Without `argument` only booleans and words have an option. */
	const char *option, *argument;
	const char *type;                   /* JSON type, where `kind` does not define it */
	const struct config_object *object; /* table of the value, or of each element */
};

struct config_object {
	const char *name;
	size_t bytes;              /* of the struct */
	void (*prepare)(void *to); /* sets defaults that another layer defines; NULL: none */
	const struct config_field *fields;
	unsigned field_count;
	/* Finds the element of a saved list that matches an element without a name, excluding names
	 * in `found`. NULL: elements have names, or at most one object exists. */
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

/* Fails to compile if the member has another type. */
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

/* ---- functions ------------------------------------------------------------------------------- */

/* Sets the defaults in a struct of zeroes. */
void config_object_init(const struct config_object *object, void *to);
/* A wrong value adds an error and keeps the default. False: `json` is not an object. */
bool config_object_parse(struct config_cursor *at, const struct config_object *object,
			 const json_t *json, void *to);
/* A new object; NULL when out of memory. */
json_t *config_object_write(const struct config_writing *writing,
			    const struct config_object *object, const void *from);
/* Whether both would be written alike. */
bool config_object_same(const struct config_object *object, const void *a, const void *b);
/* The field that names an element; NULL: at most one object of this kind exists. */
const struct config_field *config_object_name(const struct config_object *object);
/* The first field that is fixed while the target runs and differs; NULL: none. */
const struct config_field *config_object_fixed(const struct config_object *object, const void *from,
					       const void *to);
/* Sorts all lists in ascending order. */
void config_object_sort(const struct config_object *object, void *of);
/* Frees what the fields point to. */
void config_object_release(const struct config_object *object, void *of);
/* Copies the fields that the snapshot has too, into the snapshot's struct or back. */
void config_object_serve(const struct config_object *object, const void *from, void *served);
void config_object_from_served(const struct config_object *object, const void *served, void *to);
/* The default as it would be written; NULL: no fixed default, or out of memory. */
json_t *config_field_default(const struct config_object *object, const struct config_field *field);

/* The index of a word, or -1; the word of an index, or "unknown". */
int config_word_find(const char *const *words, unsigned count, const char *text);
const char *config_word_name(const char *const *words, unsigned count, unsigned index);
/* Takes the value over. False: out of memory for the value or its place. */
bool config_put(json_t *object, const char *key, json_t *taken_value);
/* A JSON list of the names; NULL when out of memory. */
json_t *config_names_to_json(char (*names)[NVME_NQN_BYTES], unsigned count);

#endif
