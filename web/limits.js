/* limits: what the page keeps at most. The oldest conversations make room for new ones. */

export const CONVERSATIONS = 200;
export const MESSAGES = 1000;         // of one conversation, all branches together
export const MESSAGE_CHARS = 1 << 18; // that a person writes
export const REPLY_CHARS = 1 << 20;   // a longer reply is stopped
export const SPANS = 20000;           // pieces of a reply whose origin is kept; what follows has none
export const EDITOR_CHARS = 1 << 16;  // of tools, a schema, a system prompt
export const LIVE_POINTS = 120;       // of the curve of the live page, one a second
