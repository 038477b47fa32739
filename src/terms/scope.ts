/** What an API key may do: `buy` orders and reads what was bought, `scrape` runs scrapers. Neither includes the other. */
export const scopes = ['buy', 'scrape'] as const
export type Scope = (typeof scopes)[number]
