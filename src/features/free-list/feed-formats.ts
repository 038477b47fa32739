export const feedFormats = ['text', 'json'] as const
export type FeedFormat = (typeof feedFormats)[number]
