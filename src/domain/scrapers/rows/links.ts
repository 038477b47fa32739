import { link, type ScraperRow, scraper } from '../scraper.ts'

const komiHosts = ['komi.io']
const linkbioHosts = ['lnk.bio']
const linkmeHosts = ['link.me']
const linktreeHosts = ['linktr.ee']
const pillarHosts = ['pillar.io']

/** Scrapers of komi, linkbio, linkme, linktree, pillar. */
export const links: readonly ScraperRow[] = [
  scraper('komi', 'page', {
    price: '0.0030',
    summary: 'A page of links',
    inputs: [link('page', komiHosts, 'https://example.komi.io/', { required: true })],
    answer: 'Profile, social accounts and links',
    fields:
      'id username displayName bio avatar links:object[] instagram tiktok youtube twitter website:any firstName',
    items: ['links', 'id url title thumbnail type'],
    path: '/v1/komi',
    isCacheable: true,
  }),
  scraper('linkbio', 'page', {
    price: '0.0030',
    summary: 'A page of links',
    inputs: [link('page', linkbioHosts, 'https://lnk.bio/example', { required: true })],
    answer: 'Profile, social accounts and links',
    fields:
      'handle id links:object[] instagram:any tiktok:any youtube:any twitter:any website:any email:any whatsapp:any',
    items: ['links', 'url text'],
    path: '/v1/linkbio',
    isCacheable: true,
  }),
  scraper('linkme', 'profile', {
    price: '0.0030',
    summary: 'A profile of links',
    inputs: [link('profile', linkmeHosts, 'https://link.me/example', { required: true })],
    answer: 'Profile with its details and links',
    fields: 'profile:object',
    path: '/v1/linkme',
    isCacheable: true,
  }),
  scraper('linktree', 'page', {
    price: '0.0030',
    summary: 'A page of links',
    inputs: [link('page', linktreeHosts, 'https://linktr.ee/example', { required: true })],
    answer: 'Profile, links, and the social accounts among them',
    fields:
      'id:number username description profilePictureUrl links:object[] linkPlatforms:string[] verticals:string[] timezone email_address instagram tiktok spotify',
    items: ['links', 'id:number url title type'],
    path: '/v1/linktree',
    isCacheable: true,
  }),
  scraper('pillar', 'page', {
    price: '0.0030',
    summary: 'A page of links',
    inputs: [link('page', pillarHosts, 'https://pillar.io/example', { required: true })],
    answer: 'Profile, links and products',
    fields:
      'id first_name last_name email location links:object[] products:object[] instagram tiktok youtube email_primary amazon',
    items: ['links', 'id url title type'],
    path: '/v1/pillar',
    isCacheable: true,
  }),
]
