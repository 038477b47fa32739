import {
  type Answers,
  count,
  entries,
  flag,
  id,
  isoTime,
  link,
  list,
  milliseconds,
  mixed,
  number,
  object,
  picture,
  pictures,
  pixels,
  type Shape,
  text,
  word,
} from './fields.ts'

const uri = (kind: string) => id(`the ${kind}, as a URI`, `spotify:${kind}:0ExampleExampleExample`)
const idOf = (kind: string) => id(`the ${kind}`, '0ExampleExampleExample')
const sources = (meaning: string) => object(meaning, { sources: pictures('The picture in several sizes') })
const sharing = object('Link for sharing', { shareUrl: link('The link', 'album/1') })
const popularity = number('Popularity, from 0 to 100', 75)
const total = (things: string, example: number) =>
  object(`Number of ${things}`, { totalCount: count(things, example) })
const playability = object('Whether it can be played', {
  playable: flag('Whether it can be played', true),
  reason: word('Why, or why not', 'PLAYABLE'),
})
const contentRating = object('For whom it is', { label: word('NONE or EXPLICIT', 'NONE') })
const videos = object('Music videos', { videoAssociations: total('videos', 0) })
const duration = object('Length', { totalMilliseconds: milliseconds('Length', 186_112) })

const artistInList: Shape = {
  id: idOf('artist'),
  uri: uri('artist'),
  profile: object('Who it is', { name: text('Name of the artist', 'Example Artist') }),
  visuals: object('Pictures', { avatarImage: sources('Picture of the artist') }),
}
const artistNames = list('Artists', {
  uri: uri('artist'),
  profile: object('Who it is', { name: text('Name of the artist', 'Example Artist') }),
})
const copyright = list('Copyright', {
  type: word('C for the text, P for the recording', 'C'),
  text: text('Who holds the rights', '© 2026 Example Records'),
})
const albumName = text('Title of the album', 'Example Album')
const albumType = word('ALBUM, SINGLE, EP or COMPILATION', 'ALBUM')
const label = text('Record company', 'Example Records')
const release: Shape = {
  id: idOf('album'),
  uri: uri('album'),
  name: albumName,
  type: albumType,
  date: object('When it was published', {
    year: number('Year', 2026, 'year'),
    month: number('Month, from 1', 1),
    day: number('Day, from 1', 31),
    precision: word('What is known of the date', 'DAY'),
  }),
  label,
  copyright,
  coverArt: sources('Cover'),
  tracks: total('tracks', 17),
  playability,
  sharingInfo: sharing,
}
const isoDate = object('When it was published', {
  isoString: isoTime('The date'),
  precision: word('What is known of the date', 'DAY'),
  year: number('Year', 2026, 'year'),
})
const trackInList: Shape = {
  uri: uri('track'),
  name: text('Title of the track', 'Example Song'),
  trackNumber: number('Place on the album, from 1', 1),
  discNumber: number('Number of the disc, from 1', 1),
  duration,
  playcount: count('plays', 130_437),
  artists: artistNames,
  contentRating,
  playability,
  associationsV3: videos,
}
const playlists = (meaning: string) =>
  list(meaning, {
    uri: uri('playlist'),
    name: text('Name of the playlist', 'Example Playlist'),
    description: text('What the playlist has', 'Songs for a walk'),
    ownerV2: object('Whose playlist it is', { name: text('Name', 'Example Person') }),
  })
const relatedArtists = list('Similar artists', artistInList)

export const spotify: Answers = {
  album: {
    id: idOf('album'),
    uri: uri('album'),
    name: albumName,
    type: albumType,
    date: isoDate,
    label,
    artists: list('Artists', { ...artistInList, sharingInfo: sharing }),
    tracksV2: list('Tracks', {
      uid: id('the entry', '0000000000000001'),
      track: object('The track', trackInList),
    }),
    discs: list('Discs', { number: number('Number of the disc, from 1', 1), tracks: total('tracks', 3) }),
    coverArt: object('Cover', {
      sources: pictures('The picture in several sizes'),
      extractedColors: object('Colours', {
        colorRaw: object('Main colour', { hex: word('The colour', '#E0E0E0') }),
      }),
    }),
    copyright,
    isPreRelease: flag('Whether it is not yet published', false),
    playability,
    sharingInfo: sharing,
    moreAlbumsByArtist: list('More of the artists', {
      discography: object('Albums', { popularReleasesAlbums: list('Popular albums', release) }),
    }),
    popularity,
  },
  artist: {
    id: idOf('artist'),
    uri: uri('artist'),
    profile: object('Who it is', {
      name: text('Name of the artist', 'Example Artist'),
      biography: object('Biography', {
        type: word('Who wrote it', 'AUTOBIOGRAPHY'),
        text: text('The text', 'An artist who does not exist'),
      }),
      externalLinks: list('Links', {
        name: word('Name of the platform', 'FACEBOOK'),
        url: link('The link', '@example-artist'),
      }),
      playlistsV2: playlists('Playlists of the artist'),
    }),
    stats: object('Figures', {
      followers: count('followers', 9_462_413),
      monthlyListeners: count('listeners of the last month', 28_333_760),
      worldRank: number('Rank in the world; 0 is none', 256),
      topCities: list('Cities with most listeners', {
        city: word('City', 'London'),
        country: word('Country, two letters', 'GB'),
        region: word('Region', 'ENG'),
        numberOfListeners: count('listeners', 518_632),
      }),
    }),
    discography: object('Releases', {
      latest: object('The latest release', release),
      albums: list('Albums', release),
      singles: list('Singles', release),
      popularReleasesAlbums: list('Popular releases', release),
      topTracks: list('Popular tracks', {
        uid: id('the entry', '0000000000000001'),
        track: object('The track', { ...trackInList, id: idOf('track'), popularity }),
      }),
    }),
    relatedContent: object('Related', {
      relatedArtists,
      appearsOn: list('Releases of others with the artist', release),
      discoveredOnV2: playlists('Playlists where people find the artist'),
      featuringV2: playlists('Playlists with the artist'),
    }),
    goods: object('What the artist offers', {
      concerts: list('Concerts', {
        uri: uri('concert'),
        title: text('Title', 'Example Artist'),
        startDateIsoString: isoTime('When it begins'),
        festival: flag('Whether it is a festival', false),
        location: object('Where it is', {
          name: text('Name of the place', 'Example Hall'),
          city: text('City', 'Example City'),
        }),
      }),
    }),
    popularity,
    headerImage: object('Wide picture', {
      sources: list('The picture in several sizes', {
        url: picture('Link to the picture'),
        maxWidth: pixels('Width', 1_494),
        maxHeight: pixels('Height', 640),
      }),
    }),
    onPlatformReputationTrait: object('What the platform says of the artist', {
      verification: object('Verification', {
        isVerified: flag('Whether the artist is verified', true),
        isRegistered: flag('Whether the artist has an account', true),
      }),
    }),
    sharingInfo: sharing,
    preRelease: mixed('Announced release, or null', null),
    relatedMusicVideos: entries('Music videos'),
  },
  track: {
    id: idOf('track'),
    uri: uri('track'),
    name: text('Title of the track', 'Example Song'),
    mediaType: word('AUDIO or VIDEO', 'AUDIO'),
    duration,
    playcount: count('plays', 7_190_090),
    trackNumber: number('Place on the album, from 1', 8),
    albumOfTrack: object('Album of the track', {
      id: idOf('album'),
      uri: uri('album'),
      name: albumName,
      type: albumType,
      date: isoDate,
      copyright,
      coverArt: sources('Cover'),
      tracks: list('Tracks of the album', {
        track: object('The track', {
          uri: uri('track'),
          trackNumber: number('Place on the album, from 1', 1),
        }),
      }),
      sharingInfo: sharing,
    }),
    firstArtist: list('First artist', {
      ...artistInList,
      discography: object('Releases', {
        albums: list('Albums', release),
        singles: list('Singles', release),
        popularReleasesAlbums: list('Popular releases', release),
      }),
      relatedContent: object('Related', { relatedArtists }),
    }),
    otherArtists: list('Other artists', artistInList),
    contentRating,
    playability,
    sharingInfo: sharing,
    popularity,
    associationsV3: videos,
  },
}
