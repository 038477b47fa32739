import type { Link, Navigation } from './frame.ts'
import type { ConsolePage, Visitor } from './page.ts'
import { mayVisit } from './page-access.ts'

type Tab = { readonly label: string; readonly page: string }

/** An entry of the navigation. It opens its page, or the first of its tabs that the visitor may see. */
export type NavigationEntry = {
  readonly label: string
  /** The name of the page, or several pages that are shown as tabs of each other. */
  readonly page: string | readonly Tab[]
  /** Further paths whose pages belong to the entry, e.g. `/console/deposits`. */
  readonly also?: readonly string[]
  /** It is shown to visitors with an account only. The page redirects others. */
  readonly ofAccount?: true
}

export type NavigationGroup = {
  readonly label: string
  readonly entries: readonly NavigationEntry[]
  /** Where it is shown: in the footer (public pages), or in the menu of the person. Default: the navigation. */
  readonly at?: 'footer' | 'menu'
  /** The entries are folded for resellers, whose own entries come first. */
  readonly folds?: true
}

const isBelow = (path: string, root: string): boolean =>
  root !== '/' && root !== '/console' && path.startsWith(`${root}/`)

const tabsOf = ({ label, page }: NavigationEntry): readonly Tab[] =>
  typeof page === 'string' ? [{ label, page }] : page

/** The pages above a page by their paths, and below the page of its entry. */
const pagesAbove = (pages: readonly ConsolePage[], page: ConsolePage, root: string) =>
  pages
    .filter(
      ({ path, show, crumb }) =>
        show && crumb !== undefined && isBelow(page.path, path) && isBelow(path, root),
    )
    .sort((one, other) => one.path.length - other.path.length)

/**
 * Creates the function that returns the links of a page for a visitor.
 * @throws Error if an entry names no page
 */
export const createNavigation = (pages: readonly ConsolePage[], groups: readonly NavigationGroup[]) => {
  const byName = new Map(pages.map((page) => [page.name, page]))
  const pageOf = (name: string): ConsolePage => {
    const page = byName.get(name)
    if (!page) throw new Error(`the navigation names the page ${name}, which does not exist`)
    return page
  }
  const declaredGroups = groups.map((group) => ({
    ...group,
    entries: group.entries.map((entry) => ({
      ...entry,
      also: entry.also ?? [],
      tabs: tabsOf(entry).map(({ label, page }) => ({ label, page: pageOf(page) })),
    })),
  }))
  type Entry = (typeof declaredGroups)[number]['entries'][number]

  /** How well a page belongs to an entry: the length of the root that contains its path; 0: it does not. */
  const fitOf = ({ tabs, also }: Entry, path: string): number =>
    Math.max(
      0,
      ...[...tabs.map(({ page }) => page.path), ...also].map((root) =>
        path === root || isBelow(path, root) ? root.length : 0,
      ),
    )

  /** The page and its path as requested. */
  return (page: ConsolePage, path: string, visitor: Visitor | null): Navigation => {
    const shown = declaredGroups
      .map(({ entries, ...group }) => ({
        ...group,
        entries: entries
          .filter(({ ofAccount }) => !ofAccount || visitor?.account)
          .map((entry) => ({ ...entry, tabs: entry.tabs.filter((tab) => mayVisit(tab.page, visitor)) }))
          .filter(({ tabs }) => tabs.length > 0),
      }))
      .filter(({ entries }) => entries.length > 0)
    const all = shown.flatMap(({ entries }) => entries)
    const best = Math.max(0, ...all.map((entry) => fitOf(entry, page.path)))
    const entry = best === 0 ? undefined : all.find((each) => fitOf(each, page.path) === best)
    const linkOf = (label: string, { path: to }: ConsolePage, isCurrent: boolean): Link => ({
      label,
      path: to,
      current: to === page.path ? 'page' : isCurrent ? 'true' : null,
    })
    const linksOf = (entries: readonly Entry[]): readonly Link[] =>
      entries.map((each) => linkOf(each.label, each.tabs[0]!.page, each === entry))
    const groupsAt = (at: NavigationGroup['at']) => shown.filter((group) => group.at === at)
    const tabs = (entry?.tabs ?? []).map((tab) =>
      linkOf(tab.label, tab.page, isBelow(page.path, tab.page.path)),
    )
    const isTab = tabs.some(({ current }) => current === 'page')
    const parent = tabs.find(({ current }) => current === 'true') ?? tabs[0]
    const isReseller = visitor?.account?.reseller === true
    return {
      groups: groupsAt(visitor === null ? 'footer' : undefined).map(({ label, entries, folds }) => {
        const links = linksOf(entries)
        return {
          label,
          links,
          folded: folds === true && isReseller && links.every(({ current }) => !current),
        }
      }),
      menu: groupsAt('menu').flatMap(({ entries }) => linksOf(entries)),
      footer: visitor === null ? [] : groupsAt('footer').flatMap(({ entries }) => linksOf(entries)),
      tabs: isTab && tabs.length > 1 ? tabs : [],
      crumbs:
        isTab || parent === undefined
          ? []
          : [
              { label: parent.label, path: parent.path },
              ...pagesAbove(pages, page, parent.path).map(({ path: above, crumb = '' }) => ({
                label: crumb,
                path: path.split('/').slice(0, above.split('/').length).join('/'),
              })),
            ],
    }
  }
}
