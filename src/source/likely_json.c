/* likely_json: see likely_json.h. */
#include "source/likely_json.h"

#include <string.h>

enum { CAME_NOTHING, CAME_OPEN, CAME_KEY, CAME_COLON, CAME_VALUE, CAME_COMMA };
enum { OBJECT, ARRAY, ARRAY_OF_CONTAINERS }; /* which of the three openers, items or closers */

static bool is_blank(char b)
{
    return b == ' ' || b == '\t' || b == '\n' || b == '\r';
}

static bool ends_value(char b)
{
    return b == ',' || b == '}' || b == ']';
}

static bool in_object(const struct source_json *j)
{
    return j->depth && j->objects >> (j->depth - 1) & 1;
}

static void set_spot(struct json_spot *s, const char *head)
{
    *s = (struct json_spot){.known = true, .n = (uint8_t)strlen(head)};
    memcpy(s->head, head, s->n);
}

void source_json_style_init(struct json_style *s)
{
    *s = (struct json_style){.unit = 2, .blank = ' '};
    set_spot(&s->spot[JSON_TOP], "");
    set_spot(&s->spot[JSON_EMPTY], "");
    set_spot(&s->spot[JSON_BEFORE_COLON], "");
    set_spot(&s->spot[JSON_BEFORE_COMMA], "");
}

void source_json_begin(struct source_json *j, const struct json_style *earlier, bool behind_text)
{
    *j = (struct source_json){.style = *earlier};
    for (unsigned p = 0; p < JSON_PLACES; p++)
        j->style.spot[p].seen = false;
    if (!behind_text) {
        set_spot(&j->style.spot[JSON_TOP], "");
        j->style.spot[JSON_TOP].seen = true;
    }
    /* Hardly anyone writes it otherwise. */
    j->style.spot[JSON_BEFORE_COLON].seen = j->style.spot[JSON_BEFORE_COLON].n == 0;
    j->style.spot[JSON_BEFORE_COMMA].seen = j->style.spot[JSON_BEFORE_COMMA].n == 0;
    j->style.spot[JSON_EMPTY].seen = j->style.spot[JSON_EMPTY].n == 0;
}

void source_json_pass_on(const struct source_json *j, struct json_style *earlier, bool behind_text)
{
    const struct json_spot top = earlier->spot[JSON_TOP];
    *earlier = j->style;
    if (!behind_text)
        earlier->spot[JSON_TOP] = top;
}

/* --- places ---------------------------------------------------------------------------------------------------------- */

/* The place where the gap before b stands, and how deep a line that begins with b is. */
static unsigned place_of(const struct source_json *j, char b, uint32_t *depth)
{
    const unsigned next = in_object(j) ? OBJECT : b == '{' || b == '[' ? ARRAY_OF_CONTAINERS : ARRAY;
    *depth = j->depth;
    switch (j->came) {
    case CAME_OPEN:
        return b == '}' || b == ']' ? JSON_EMPTY : JSON_OPEN + next;
    case CAME_COMMA:
        return JSON_ITEM + next;
    case CAME_KEY:
        return JSON_BEFORE_COLON;
    case CAME_COLON:
        return JSON_VALUE;
    case CAME_VALUE:
        if (b == ',')
            return JSON_BEFORE_COMMA;
        *depth = j->depth ? j->depth - 1u : 0;
        return JSON_CLOSE + (in_object(j) ? OBJECT : j->held ? ARRAY_OF_CONTAINERS : ARRAY);
    default:
        return JSON_TOP;
    }
}

/* Stand in for places of which nothing is known. */
static const struct json_spot nothing, one_blank = {.head = " ", .n = 1};

/* The first known one on a line, or `otherwise`. */
static const struct json_spot *in_line(const struct json_style *s, const uint8_t *places, unsigned n,
                                       const struct json_spot *otherwise)
{
    for (unsigned i = 0; i < n; i++)
        if (s->spot[places[i]].known && !s->spot[places[i]].lines)
            return &s->spot[places[i]];
    return otherwise;
}

static const struct json_spot *opener(const struct json_style *s, unsigned kind)
{
    static const uint8_t order[3][3] = {{OBJECT, ARRAY_OF_CONTAINERS, ARRAY},
                                        {ARRAY, OBJECT, ARRAY_OF_CONTAINERS},
                                        {ARRAY_OF_CONTAINERS, OBJECT, ARRAY}};
    for (unsigned i = 0; i < 3; i++)
        if (s->spot[JSON_OPEN + order[kind][i]].known)
            return &s->spot[JSON_OPEN + order[kind][i]];
    return &nothing;
}

/* The place, or the one most like it. */
static const struct json_spot *spot_of(const struct json_style *s, unsigned place)
{
    static const uint8_t others[] = {JSON_ITEM + OBJECT, JSON_ITEM + ARRAY_OF_CONTAINERS, JSON_ITEM + ARRAY,
                                     JSON_VALUE};
    if (s->spot[place].known)
        return &s->spot[place];
    if (place >= JSON_CLOSE)
        return opener(s, place - JSON_CLOSE);
    if (place >= JSON_ITEM) {
        const struct json_spot *o = opener(s, place - JSON_ITEM);
        return o->lines ? o : in_line(s, others, 4, &one_blank);
    }
    return place >= JSON_OPEN ? opener(s, place - JSON_OPEN) : in_line(s, others, 3, &one_blank);
}

/* --- learning -------------------------------------------------------------------------------------------------------- */

/* A line at this depth begins with n blanks. */
static void learn_indent(struct json_style *s, uint32_t depth, uint32_t n, char blank)
{
    if (n && blank != s->blank)
        s->blank = blank;
    else if (n == s->base + depth * s->unit)
        return;
    if (depth && n % depth == 0) {
        s->base = 0;
        s->unit = (uint8_t)(n / depth);
    } else {
        s->base = (uint8_t)(n > depth * s->unit ? n - depth * s->unit : depth ? 0 : n);
    }
}

static void learn(struct json_style *s, unsigned place, uint32_t depth, const char *gap, uint32_t n)
{
    struct json_spot *to = &s->spot[place], now = {.known = true, .seen = true};
    uint32_t head = n;
    while (head && gap[head - 1] != '\n')
        head--;
    now.lines = head > 0;
    now.n = (uint8_t)(now.lines ? head : n);
    for (uint32_t i = head; i + 1 < n; i++)
        if (now.lines && gap[i] != gap[n - 1])
            return; /* blanks of two kinds */
    if (n >= JSON_GAP || now.n > JSON_HEAD)
        return;
    memcpy(now.head, gap, now.n);
    if (place >= JSON_VALUE && to->known && !to->seen && (to->n != now.n || memcmp(to->head, now.head, now.n) != 0))
        for (unsigned p = JSON_VALUE; p < JSON_PLACES; p++) /* not as earlier texts were */
            s->spot[p].known = s->spot[p].seen;
    *to = now;
    if (now.lines)
        learn_indent(s, depth, n - head, gap[n - 1]);
}

/* --- following ------------------------------------------------------------------------------------------------------- */

static void put_in_string(struct source_json *j, char b)
{
    if (j->escaped) {
        j->escaped = false;
    } else if (b == '\\') {
        j->escaped = true;
    } else if (b == '"') {
        j->in_string = false;
        j->came = j->is_key ? CAME_KEY : CAME_VALUE;
        j->held = false;
    }
}

static void put_part(struct source_json *j, char b)
{
    switch (b) {
    case '{':
    case '[':
        if (j->depth == JSON_DEPTH) {
            j->lost = true;
            return;
        }
        j->objects = (j->objects & ~(1ull << j->depth)) | (uint64_t)(b == '{') << j->depth;
        j->depth++;
        j->came = CAME_OPEN;
        break;
    case '}':
    case ']':
        j->lost |= !j->depth;
        j->depth -= j->depth > 0;
        j->came = CAME_VALUE;
        j->held = true;
        break;
    case ',':
        j->came = CAME_COMMA;
        break;
    case ':':
        j->came = CAME_COLON;
        break;
    case '"':
        j->is_key = in_object(j) && (j->came == CAME_OPEN || j->came == CAME_COMMA);
        j->in_string = true;
        break;
    default:
        j->in_scalar = true;
        j->came = CAME_VALUE;
        j->held = false;
    }
}

bool source_json_parts(const struct source_json *j, char b)
{
    return !j->in_string && (!j->in_scalar || ends_value(b));
}

bool source_json_put(struct source_json *j, char b)
{
    if (j->in_string) {
        put_in_string(j, b);
    } else if (is_blank(b)) {
        j->in_scalar = false;
        if (j->gap_n < JSON_GAP)
            j->gap[j->gap_n++] = b;
        return false;
    } else if (source_json_parts(j, b)) {
        uint32_t depth;
        const unsigned place = place_of(j, b, &depth);
        learn(&j->style, place, depth, j->gap, j->gap_n);
        j->gap_n = 0;
        j->in_scalar = false;
        put_part(j, b);
    }
    return true;
}

/* --- expecting ------------------------------------------------------------------------------------------------------- */

uint32_t source_json_gap(const struct source_json *j, char b, char *out, bool *seen)
{
    uint32_t depth;
    const unsigned place = place_of(j, b, &depth);
    const struct json_spot *s = spot_of(&j->style, place);
    const uint32_t indent = s->lines ? j->style.base + depth * j->style.unit : 0, n = s->n + indent;
    *seen = s == &j->style.spot[place] && s->seen;
    if (n >= JSON_GAP || j->gap_n > n)
        return UINT32_MAX;
    char whole[JSON_GAP];
    memcpy(whole, s->head, s->n);
    memset(whole + s->n, j->style.blank, indent);
    if (memcmp(whole, j->gap, j->gap_n) != 0)
        return UINT32_MAX;
    memcpy(out, whole + j->gap_n, n - j->gap_n);
    return n - j->gap_n;
}

bool source_json_fits(const struct source_json *j, char b)
{
    if (!source_json_parts(j, b))
        return true;
    return !j->gap_n || j->came != CAME_VALUE || ends_value(b);
}
